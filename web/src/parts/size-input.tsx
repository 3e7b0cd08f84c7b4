import { TextInput } from "@mantine/core";
import type { ReactNode } from "react";
import { bytes, parseBytes } from "../format";

type Props = { label: string; required?: boolean; value?: string; onChange: (text: string) => void; error?: ReactNode; description?: ReactNode };

/** An input for a size such as `500 GiB` or `2 TB`. It shows the parsed size. */
export function SizeInput({ label, required = true, value = "", onChange, error, description }: Props) {
  const understood = parseBytes(value);
  return (
    <TextInput
      label={label}
      description={description ?? "Such as 500 GiB or 2 TiB (1024 each), or 2 TB (1000 each)."}
      placeholder="1 TiB"
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
      error={error}
      rightSection={
        understood !== undefined && (
          <span className="quiet number" style={{ whiteSpace: "nowrap", fontSize: 12 }}>
            = {bytes(understood)}
          </span>
        )
      }
      rightSectionWidth={92}
      rightSectionPointerEvents="none"
      autoComplete="off"
      required={required}
    />
  );
}

/** Sizes of volumes, in bytes. */
const MIN_BYTES = 1024 ** 2;
const MAX_BYTES = 16 * 1024 ** 5;

/** The error in a size, if any. */
export function sizeError(text: string, block = 512): string | null {
  const value = parseBytes(text);
  if (value === undefined) return `Write a number with a unit, such as 500 GiB or 500 GB: from ${bytes(MIN_BYTES)} to ${bytes(MAX_BYTES)}.`;
  if (value < MIN_BYTES || value > MAX_BYTES) return `The size must be from ${bytes(MIN_BYTES)} to ${bytes(MAX_BYTES)}.`;
  if (value % block !== 0) return `The size must be a whole number of blocks of ${block} bytes: ${value - (value % block)} B is the next smaller one.`;
  return null;
}

/** The error in a name, if any. */
export function nameError(name: string): string | null {
  if (name === "") return "Give it a name.";
  if (!/^[A-Za-z0-9]/.test(name)) return "Begin with a letter or a digit.";
  if (!/^[A-Za-z0-9_.-]*$/.test(name)) return "Use letters, digits, “-”, “_” and “.” only.";
  return name.length > 63 ? "63 characters at most." : null;
}
