// Positions: PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same.

export function sinusoid(position, width, base = 10000) {
  return Array.from({ length: width }, (_, i) => {
    const angle = position * Math.exp((i - (i % 2)) * (-Math.log(base) / width));
    return i % 2 ? Math.cos(angle) : Math.sin(angle);
  });
}
