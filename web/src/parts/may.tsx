import type { ReactNode } from "react";
import type { SchemaRole as Role } from "../api/schema";
import { useMay } from "../api/session";

/** Shows its content only to users with the role. */
export function May({ role = "operator", children }: { role?: Role; children: ReactNode }) {
  return useMay(role) ? children : null;
}
