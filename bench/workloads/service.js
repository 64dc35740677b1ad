// A service in small: parses requests, keeps a cache of buffers, compresses and hashes answers.
// The engine's own heap is its own affair; buffers, compressors and hashes are the allocator's.
// Prints one line that depends on every result.
"use strict";
const crypto = require("crypto");
const zlib = require("zlib");

let state = 4141;
function random(limit) {
  state = (Math.imul(state, 1103515245) + 12345) >>> 0;
  return (state >>> 8) % limit;
}

function request(number) {
  const items = [];
  for (let i = random(30); i >= 0; i--) {
    items.push({ id: number * 100 + i, name: `item ${random(5000)}`, tags: [random(9), random(99)] });
  }
  return JSON.stringify({ number, user: `user${random(800)}`, items });
}

const cache = new Map();
const digest = crypto.createHash("sha256");
let stored = 0;
let packed = 0;

for (let number = 0; number < 25000; number++) {
  const message = Buffer.from(request(number), "utf8");
  const body = JSON.parse(message.toString("utf8"));
  const answer = Buffer.alloc(256 + random(16000), `${body.user} `);
  message.copy(answer, 0, 0, Math.min(message.length, answer.length));
  cache.set(random(3000), answer);
  stored += answer.length;
  if (number % 5 === 0) {
    const pieces = [answer, message, cache.get(random(3000)) || message];
    const small = zlib.deflateRawSync(Buffer.concat(pieces), { level: 1 });
    const again = zlib.inflateRawSync(small);
    packed += again.length;
    digest.update(again);
  }
  digest.update(crypto.createHash("md5").update(answer).digest());
}

let kept = 0;
for (const buffer of cache.values()) kept += buffer.length;
console.log(cache.size, stored, packed, kept, digest.digest("hex"));
