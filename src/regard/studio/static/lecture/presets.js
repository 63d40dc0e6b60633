// Starting points of the playground: what each one shows, in words, and the words of the state that differ.

const LINE = "-3.5,1;-2.6,-0.5;-1.8,1.5;-0.8,-1;0.2,2;1,-1.5;1.9,0.5;2.7,-2;3.5,1.2";

export const PRESETS = {
  free: {
    title: "Free: five keys and a query",
    text: "Drag the query towards a key, and its weight grows. Drag a value, and the context follows it as far as its weight allows. Every score and every alignment can be chosen.",
    state: {},
  },
  lookup: {
    title: "Soft look-up: what does a box of 360 cost?",
    text: "Boxes of volume 300 and 400 cost 30 and 40. Weights go with the inverse distance, 1/60 and 1/40, divided by their sum: 2/5 and 3/5, so the answer is 36. A softmax of minus the distance answers almost 40, as a distance of 20 more is a factor of e to the power 20. A softmax of the logarithm of the kernel gives 36 again.",
    state: {
      keys: "300;400",
      values: "30;40",
      query: "360",
      area: "280,420,20,50",
      score: "inverse_distance",
      align: "normalize",
      compare: "score=negative_distance&align=softmax|score=log_inverse_distance&align=softmax",
    },
  },
  interpolation: {
    title: "Attention as a smooth table",
    text: "With a Gaussian kernel, attention draws a curve through a table of keys and values: a small bandwidth follows every key, a large one averages all of them. Drag the query along the line, or change the bandwidth.",
    state: {
      keys: "-3;-2;-1;0;1;2;3",
      values: "0.5;2;1;-1;-2;0;2.5",
      query: "0.4",
      area: "-4,4,-4,4",
      score: "gaussian",
      align: "normalize",
      bandwidth: "0.5",
      compare: "bandwidth=0.2|bandwidth=2",
    },
  },
  temperature: {
    title: "What the temperature does",
    text: "Scores are divided by the temperature before the softmax. A low temperature puts all weight on the best key, a high one spreads it evenly over all keys.",
    state: { temperature: "1", query: "1.2,0.8", compare: "temperature=0.2|temperature=5" },
  },
  hard: {
    title: "Soft against hard: draws add up to the soft weights",
    text: "Soft attention mixes all values. Hard attention draws one key by chance, with the soft weights as probabilities. One draw is a single value; the shares of many draws come close to the soft weights, and so does the mean of what was read.",
    state: { query: "1.2,0.6", samples: "20", seed: "7", temperature: "2" },
  },
  local: {
    title: "Global against local-m and local-p",
    text: "Global attention looks at all keys. Local-m sees the keys around the query's own time t only. Local-p predicts a centre p from the query, sees the keys around it, and multiplies their weights by a bell curve, so that they add up to less than one. Move the query or the time, and see who follows.",
    state: {
      keys: LINE,
      values: LINE,
      query: "1.5,1",
      align: "softmax",
      place: "3",
      window: "2",
      temperature: "1",
      compare: "align=local_monotonic|align=local_predictive",
    },
  },
  sparse: {
    title: "Softmax against entmax and sparsemax",
    text: "Softmax gives every key some weight. Sparsemax, the nearest point on the simplex, and entmax, between the two, give weak keys a weight of exactly zero. The scores here are −2, 0 and 0.5, as in the documentation.",
    state: {
      keys: "-2;0;0.5",
      values: "-3;0;3",
      query: "1",
      area: "-4,4,-4,4",
      score: "dot",
      align: "softmax",
      compare: "align=entmax&alpha=1.5|align=sparsemax",
    },
  },
  cosine: {
    title: "Why cosine needs a key strength",
    text: "A cosine lies between −1 and 1, so a softmax of ten of them cannot focus: no weight exceeds 0.451, even where the query hits one key and points away from all others. A key strength β of 8 repairs that.",
    state: {
      keys: "2,1;-2,-1;-1.9,-1.1;-2.1,-0.9;-1.8,-1;-2.2,-1;-2,-1.2;-2,-0.8;-1.9,-0.9;-2.1,-1.1",
      values: "2,1;-2,-1;-1.9,-1.1;-2.1,-0.9;-1.8,-1;-2.2,-1;-2,-1.2;-2,-0.8;-1.9,-0.9;-2.1,-1.1",
      query: "2,1",
      score: "cosine",
      strength: "1",
      compare: "strength=3|strength=8",
    },
  },
  scaled: {
    title: "Why dot products are scaled",
    text: "Query and keys are random, with entries of variance one. Their dot products have variance d, so with the width the softmax becomes almost one-hot before anything is learnt. Divided by √d they have variance one at every width.",
    state: { width: "256", number: "8", seed: "3", score: "dot", compare: "score=scaled_dot" },
  },
  masks: {
    title: "Masks: padding, causal, window",
    text: "A mask forbids keys: padding, keys that come later (causal), or keys too far away (window). A forbidden key has a weight of exactly zero, and the others share what it had. Forbid every key, and all weights and the context are zero, not an error.",
    state: { keys: LINE, values: LINE, query: "1.5,1", causal: "1", padding: "8", near: "3", place: "5" },
  },
  monotonic: {
    title: "Monotonic: read from left to right",
    text: "A reader walks along the keys from where it stood and stops at each with probability sigmoid(e + offset). The weight of a key is the probability to stop there. What never stops is lost, so the weights may add up to less than one.",
    state: { keys: LINE, values: LINE, query: "1,1", align: "monotonic", offset: "-1", start: "2", compare: "align=softmax" },
  },
  location: {
    title: "Location: keys are not looked at",
    text: "The location score multiplies the query by a row of a table for each place. Drag a key: nothing changes. There are eight rows here, so a ninth key would have no weight.",
    state: { keys: LINE, values: LINE, query: "1.5,1", score: "location" },
  },
  scores: {
    title: "Six scores of the same query and keys",
    text: "A dot product, the scaled one, the general one with a matrix, the additive one with a small network, the cosine with a key strength of 8, and the location score, which does not look at the keys. All are followed by a softmax.",
    state: {
      score: "dot",
      query: "1,2",
      keys: "1.5,2;-1,0.5;0,1;2,-1",
      values: "1.5,2;-1,0.5;0,1;2,-1",
      compare: "score=scaled_dot|score=general|score=additive|score=cosine&strength=8|score=location",
    },
  },
  luong: {
    title: "Dot, general, concat: the scores of Luong",
    text: "The query is the new state of the decoder, the keys are the states of the encoder, and the values are the keys. The general score turns the keys by a matrix W first; concat is the additive score.",
    state: {
      score: "dot",
      query: "1,0.5",
      keys: "2,1;-1,1.5;0.5,-1;1,2",
      values: "2,1;-1,1.5;0.5,-1;1,2",
      compare: "score=general|score=concat",
    },
  },
};
