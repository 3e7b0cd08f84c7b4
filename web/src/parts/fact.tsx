import type { ReactNode } from "react";

/** A name and its value, in a `dl` of the class `facts`. */
export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd className="number" style={{ overflowWrap: "anywhere" }}>
        {children}
      </dd>
    </>
  );
}
