import { ActionIcon, CopyButton, Tooltip } from "@mantine/core";
import { Check, Copy } from "lucide-react";

/** A button that copies a text. */
export function CopyText({ text, label, className }: { text: string; label: string; className?: string }) {
  return (
    <CopyButton value={text} timeout={1500}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? "Copied" : label}>
          <ActionIcon className={className} variant="subtle" color={copied ? "teal" : "gray"} size="sm" onClick={copy} aria-label={label}>
            {copied ? <Check size={15} /> : <Copy size={15} />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}

/** Commands to type on a host. */
export function Terminal({ text, label }: { text: string; label: string }) {
  return (
    <div className="terminal">
      <pre>{text}</pre>
      <CopyText text={text} label={label} className="copy" />
    </div>
  );
}
