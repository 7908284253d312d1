// node parquet.mjs TABLES LINES QUERIES compares every TABLES/*.parquet, as DuckDB reads it, with
// LINES/*.jsonl: columns, order, types and cells. Then it runs the queries of a document.
import { readFileSync, readdirSync } from "node:fs";
import { DuckDBInstance } from "@duckdb/node-api";

const [tables, lines, queries] = process.argv.slice(2);
const db = await (await DuckDBInstance.create()).connect();
let cells = 0;
for (const file of readdirSync(tables)) {
  const name = file.replace(/\.parquet$/, "");
  const read = await db.runAndReadAll(`SELECT * FROM '${tables}/${file}'`);
  const types = read.columnTypes().map(String);
  const rows = read.getRows();
  const want = readFileSync(`${lines}/${name}.jsonl`, "utf8").split("\n").filter(Boolean).map((l) => JSON.parse(l));
  if (rows.length !== want.length) throw new Error(`${name}: ${rows.length} rows, want ${want.length}`);
  want.forEach((object, r) => {
    const keys = Object.keys(object);
    if (keys.join() !== read.columnNames().join()) throw new Error(`${name}: columns ${read.columnNames()}, want ${keys}`);
    keys.forEach((key, c) => {
      const value = object[key], got = rows[r][c];
      const type = { string: "VARCHAR", number: /^(BIGINT|DOUBLE)$/ }[typeof value];
      if (type && !types[c].match(type) && !types[c].match(/^(BOOLEAN|TIMESTAMP)/)) throw new Error(`${name}.${key} is ${types[c]}, and row ${r} has ${value}`);
      if (types[c] === "BOOLEAN" || types[c].startsWith("TIMESTAMP")) {
        const text = types[c] === "BOOLEAN" ? Number(got) : got === null ? null : Number(got.micros / 1000n);
        const wanted = types[c] === "BOOLEAN" || value === null ? value : Date.parse(value);
        if (got !== null && text !== wanted || (got === null) !== (value === null)) throw new Error(`${name}.${key}, row ${r}: ${got}, want ${value}`);
        cells++;
        return;
      }
      const same = typeof got === "bigint" ? Number.isSafeInteger(value) && got === BigInt(value) : Object.is(got, value);
      if (!same) throw new Error(`${name}.${key}, row ${r}: ${got}, want ${value}`);
      cells++;
    });
  });
}
const blocks = readFileSync(queries, "utf8").split("```sql\n").slice(1).map((b) => b.split("```")[0]);
for (const query of blocks) {
  const found = await db.runAndReadAll(query.replaceAll("results/", `${tables}/`));
  if (found.currentRowCount === 0) throw new Error(`no rows: ${query}`);
}
if (cells === 0 || blocks.length === 0) throw new Error(`${cells} cells and ${blocks.length} queries: nothing was compared`);
console.log(`DuckDB reads ${cells} cells as they are, and ${blocks.length} queries of the document have rows`);
