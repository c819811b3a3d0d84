// node explorables.mjs: evaluate the formulas of pages. Lines of standard input are JSON: {page, key, inputs, over, steps}.
// Each answer is a line: for every output, the list of its values; null stands for numbers that are not finite.
import {readFileSync} from "node:fs";

const pages = {};
const formulasOf = (page) => pages[page] ??= new Function(
  readFileSync(page, "utf8").match(/<script id="formulas">([^]*?)<\/script>/)[1] + "return formulas;")();
const number = (v) => v === "Infinity" ? Infinity : v;
const rows = (columns) => {
  const names = Object.keys(columns), count = names.length ? columns[names[0]].length : 0;
  return Array.from({length: count}, (_, k) => Object.fromEntries(names.map((name) => [name, number(columns[name][k])])));
};

for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const {page, key, inputs, over, steps} = JSON.parse(line), formula = formulasOf(page)[key];
  const varying = rows(over), one = Object.keys(over).length === 1 && !steps;
  const found = rows(inputs).map((given, k) => {
    const at = formula(given);
    if (!steps) return at(one ? Object.values(varying[k])[0] : undefined);
    let now = varying[k];
    for (let n = 0; n < steps; ++n) now = at(now);
    return now;
  });
  console.log(JSON.stringify(Object.fromEntries(Object.keys(found[0]).map((name) => [name, found.map((row) => row[name])]))));
}
