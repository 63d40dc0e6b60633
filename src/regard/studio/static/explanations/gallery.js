// Pictures side by side, with labels of rows and columns; one that is chosen is shown large.

import { bdi, el, frame, shown, sharp, whole } from "./parts.js";
import { loadPicture } from "./picture.js";

const LARGE = 320; // pixels of the page

export function draw(root, explanation, options) {
  const [down, across] = explanation.grid,
    { rows, columns } = explanation;
  let picture = null;
  const chosen = () => whole(at.values.tile, 0, down * across - 1, null);
  const name = (place) => {
    const [row, column] = [Math.floor(place / across), place % across];
    return [rows.length ? shown(rows[row]) : `row ${row + 1}`, columns.length ? shown(columns[column]) : `column ${column + 1}`].join(", ");
  };
  const at = frame(root, explanation, options, {
    label: "gallery of pictures",
    repaint,
    name: () => `gallery ${explanation.title}`,
    hint: "Choose a picture to see it large; arrow keys go from one to the next.",
  });
  const tiles = Array.from({ length: down * across }, (_, place) =>
    el(
      "button",
      {
        type: "button",
        "aria-label": name(place),
        "aria-pressed": "false",
        data: { place },
        onclick: () => at.change({ tile: chosen() === place ? undefined : place }),
      },
      el("canvas"),
    ),
  );
  const table = el(
    "table",
    { class: "regard-tiles" },
    columns.length
      ? el(
          "thead",
          {},
          el("tr", {}, rows.length ? el("td") : null, ...columns.map((text) => el("th", { scope: "col", dir: "auto", text: shown(text) }))),
        )
      : null,
    el(
      "tbody",
      {},
      ...Array.from({ length: down }, (_, row) =>
        el(
          "tr",
          {},
          rows.length ? el("th", { scope: "row", dir: "auto", text: shown(rows[row]) }) : null,
          ...tiles.slice(row * across, (row + 1) * across).map((tile) => el("td", {}, tile)),
        ),
      ),
    ),
  );
  const large = el("canvas", { role: "img" });
  at.stage.append(el("div", { class: "regard-split" }, el("div", { class: "regard-scroll" }, table), large));
  table.addEventListener("keydown", (event) => {
    const way = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key],
      place = tiles.indexOf(event.target);
    if (!way || place < 0 || !tiles[place + way]) return;
    event.preventDefault();
    tiles[place + way].focus();
    at.change({ tile: place + way }, true);
  });
  large.addEventListener("pointermove", (event) => {
    const area = large.getBoundingClientRect(),
      [wide, high] = [picture.width / across, picture.height / down],
      place = chosen() ?? 0;
    const [x, y] = [
      Math.floor(((event.clientX - area.left) / area.width) * wide),
      Math.floor(((event.clientY - area.top) / area.height) * high),
    ];
    const [red, green, blue] = picture.colour
      .getContext("2d")
      .getImageData((place % across) * wide + x, Math.floor(place / across) * high + y, 1, 1).data;
    at.say([bdi(name(place)), `: row ${y + 1}, column ${x + 1} is red ${red}, green ${green}, blue ${blue}`]);
  });

  function put(canvas, place, side) {
    const [wide, high] = [picture.width / across, picture.height / down],
      scale = side / Math.max(wide, high);
    const pen = sharp(canvas, wide * scale, high * scale);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(picture.colour, (place % across) * wide, Math.floor(place / across) * high, wide, high, 0, 0, wide * scale, high * scale);
  }

  function repaint() {
    if (!picture) return;
    const now = chosen(),
      room = (at.stage.clientWidth - 90) / across,
      side = Math.max(44, Math.min(112, room - 14));
    tiles.forEach((tile, place) => {
      put(tile.firstChild, place, side);
      tile.setAttribute("aria-pressed", String(place === now));
    });
    large.hidden = now === null;
    if (now !== null) {
      put(large, now, Math.min(LARGE, at.stage.clientWidth));
      large.setAttribute("aria-label", name(now));
      at.say([bdi(name(now))]);
    } else at.say([`${down * across} pictures of ${picture.width / across} × ${picture.height / down} pixels`]);
  }

  at.save();
  at.handle.ready = loadPicture(explanation.image).then((made) => {
    picture = made;
    repaint();
  });
  return at.handle;
}
