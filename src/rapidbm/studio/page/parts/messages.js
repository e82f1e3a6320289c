// Messages as the server sends them: a header in JSON, and arrays behind it (studio/messages.py).

const KINDS = { i8: Int8Array, u8: Uint8Array, f32: Float32Array };
const words = new TextDecoder();

/** The header of a message, with its arrays by name under `arrays`. */
export function read(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(words.decode(new Uint8Array(buffer, 4, size)));
  const arrays = {};
  let at = 4 + size;
  for (const [name, kind, shape] of header.arrays ?? []) {
    const count = shape.reduce((a, b) => a * b, 1);
    if (kind === "bits") {
      const wide = Math.ceil(shape[shape.length - 1] / 8);
      const bytes = shape.length && count ? (wide * count) / shape[shape.length - 1] : 0;
      arrays[name] = {
        shape,
        values: unpacked(new Uint8Array(buffer, at, bytes), shape[shape.length - 1], wide, count),
      };
      at += bytes + (-bytes & 3);
    } else {
      const Kind = KINDS[kind];
      const bytes = count * Kind.BYTES_PER_ELEMENT;
      arrays[name] = { shape, values: new Kind(buffer, at, count) };
      at += bytes + (-bytes & 3);
    }
  }
  return { ...header, arrays };
}

/** Bits, 0 or 1, of rows that are padded to whole bytes. */
function unpacked(bytes, columns, wide, count) {
  const bits = new Uint8Array(count);
  for (let i = 0, row = 0; i < count; row += wide) {
    for (let column = 0; column < columns; column += 1, i += 1) {
      bits[i] = (bytes[row + (column >> 3)] >> (7 - (column & 7))) & 1;
    }
  }
  return bits;
}
