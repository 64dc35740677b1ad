// A workload for node: objects, strings, buffers, compression, worker threads and a child process.
const crypto = require('crypto');
const zlib = require('zlib');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { execFileSync } = require('child_process');

const digest = (data) => crypto.createHash('sha256').update(data).digest('hex').slice(0, 16);

function objects(seed) {
    const map = new Map();
    for (let i = 0; i < 30000; i++) {
        const key = `key${(i * 7919 + seed) % 6007}`;
        map.set(key, [...(map.get(key) || []), { i, text: 'x'.repeat(i % 30) }].slice(-5));
    }
    return digest(JSON.stringify([...map].sort()));
}

function buffers() {
    const list = [];
    for (let i = 0; i < 3000; i++) {
        list.push(Buffer.alloc(1 + ((i * 7919) % 70000), i % 251));
        if (list.length > 200) list.splice((i * 31) % 200, 1);
    }
    return digest(Buffer.concat(list));
}

if (!isMainThread) {
    parentPort.postMessage(objects(workerData));
} else {
    console.log('objects', objects(1));
    console.log('buffers', buffers());
    const text = Array.from({ length: 60000 }, (_, i) => `${i * i}`).join(',');
    const packed = zlib.gzipSync(text, { level: 6 });
    console.log('zlib', zlib.gunzipSync(packed).toString() === text);
    console.log('regexp', text.replace(/(\d)(\d)/g, '$2$1').length, text.match(/99+/g).length);
    console.log('child', execFileSync(process.execPath, ['-p', '[1,2,3].map(x => x * 2).join()'])
        .toString().trim());
    const workers = [2, 3, 4].map((seed) => new Promise((resolve, reject) => {
        const worker = new Worker(__filename, { workerData: seed });
        worker.on('message', resolve);
        worker.on('error', reject);
    }));
    Promise.all(workers).then((results) => console.log('workers', results.join(' ')));
}
