/** A state in a list: a coloured dot with its word. */
export function Dot({ color, label }: { color: "teal" | "gray" | "red" | "orange" | "yellow"; label: string }) {
  return (
    <span style={{ display: "inline-flex", alignItems: "center", gap: 8, whiteSpace: "nowrap" }}>
      <span aria-hidden style={{ width: 8, height: 8, borderRadius: 4, background: `var(--mantine-color-${color}-6)`, flex: "none" }} />
      <span className={color === "gray" ? "quiet" : undefined}>{label}</span>
    </span>
  );
}
