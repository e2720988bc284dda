// Writes an embedded database with all migrations into a file: node make-image.ts <path>

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import { pg_trgm } from "@electric-sql/pglite/contrib/pg_trgm";
import { openStore } from "../../../services/store/open-store.ts";
import { silent } from "../log.ts";
import { temporaryFolder } from "../temporary-folder.ts";

const [, , target = ""] = process.argv;
const path = temporaryFolder();
const store = await openStore({ kind: "folder", path }, silent);
await store.migrate();
await store.close();
const pglite = await PGlite.create(join(path, "pg"), { extensions: { pg_trgm } });
await pglite.exec("update pg_database set datistemplate = false");
for (const name of ["template0", "template1"]) await pglite.exec(`drop database ${name}`); // a third of the image, which every start reads
const image = await pglite.dumpDataDir("none");
await pglite.close();
writeFileSync(target, Buffer.from(await image.arrayBuffer()));
