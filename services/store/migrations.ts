import { Migration20261121000000_house } from "./migrations/Migration20261121000000_house.ts";
import { Migration20261121000100_identity } from "./migrations/Migration20261121000100_identity.ts";
import { Migration20261121000400_lists } from "./migrations/Migration20261121000400_lists.ts";
import { Migration20261121000500_audit } from "./migrations/Migration20261121000500_audit.ts";
import { Migration20261121000600_usage } from "./migrations/Migration20261121000600_usage.ts";
import { Migration20261121000700_scale } from "./migrations/Migration20261121000700_scale.ts";
import { Migration20261121000800_proof } from "./migrations/Migration20261121000800_proof.ts";

/** All migrations, oldest first. A database records those it has by class name. */
export const MIGRATIONS = [
  Migration20261121000000_house,
  Migration20261121000100_identity,
  Migration20261121000400_lists,
  Migration20261121000500_audit,
  Migration20261121000600_usage,
  Migration20261121000700_scale,
  Migration20261121000800_proof,
];
