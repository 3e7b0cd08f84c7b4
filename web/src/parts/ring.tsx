import type { ReactNode } from "react";

type Props = { parts: { name: string; value: number; color: string }[]; total: number; label: string; size?: number; children: ReactNode };

const WIDTH = 13;

/** Shares of a whole, as a ring with content in its middle. */
export function Ring({ parts, total, label, size = 156, children }: Props) {
  const radius = (size - WIDTH) / 2;
  const around = 2 * Math.PI * radius;
  // A share above zero is visible.
  const length = (value: number) => (value > 0 && total > 0 ? Math.max((value / total) * around, 2) : 0);
  const arcs = parts.map((part, index) => ({
    ...part,
    length: length(part.value),
    offset: parts.slice(0, index).reduce((sum, before) => sum + length(before.value), 0),
  }));
  return (
    <div style={{ position: "relative", width: size, height: size, flex: "none", marginInline: "auto" }} role="img" aria-label={label}>
      <svg width={size} height={size} aria-hidden style={{ transform: "rotate(-90deg)" }}>
        <circle cx={size / 2} cy={size / 2} r={radius} fill="none" stroke="var(--ashlar-line)" strokeWidth={WIDTH} />
        {arcs.map((arc) => (
          <circle
            key={arc.name}
            cx={size / 2}
            cy={size / 2}
            r={radius}
            fill="none"
            stroke={arc.color}
            strokeWidth={WIDTH}
            strokeDasharray={`${arc.length} ${around}`}
            strokeDashoffset={-arc.offset}
          />
        ))}
      </svg>
      <div style={{ position: "absolute", inset: 0, display: "grid", placeContent: "center", textAlign: "center" }}>{children}</div>
    </div>
  );
}
