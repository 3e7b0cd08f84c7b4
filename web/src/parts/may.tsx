import type { ReactNode } from "react";
import type { SchemaRole as Role } from "../api/schema";
import { useMay } from "../api/session";

/** What only some may do is not shown to the others. */
export function May({ role = "operator", children }: { role?: Role; children: ReactNode }) {
  return useMay(role) ? children : null;
}
