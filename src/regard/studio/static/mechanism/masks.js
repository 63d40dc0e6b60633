// Masks: who may attend to whom, as a matrix of booleans, true = may attend. The last query stands at the last key,
// unless `rows` says at which places the queries stand.

/** `rules`: padding (how many keys there are), causal (true), window ([before, after]), block (size). All must agree. */
export function mask(rules, numQueries, numKeys, rows) {
  const places = rows ?? Array.from({ length: numQueries }, (_, i) => i + numKeys - numQueries);
  return places.map((place) =>
    Array.from({ length: numKeys }, (_, j) => {
      if (rules.padding !== undefined && j >= rules.padding) return false;
      if (rules.causal && j > place) return false;
      if (rules.window && (j < place - rules.window[0] || j > place + rules.window[1])) return false;
      return rules.block === undefined || Math.floor(j / rules.block) === Math.floor(place / rules.block);
    }),
  );
}
