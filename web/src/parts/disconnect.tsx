import { Button } from "@mantine/core";
import { Unlink } from "lucide-react";
import { May } from "./may";

/** The button for operators at the end of a connection row. */
export function Disconnect({ onClick }: { onClick: () => void }) {
  return (
    <May>
      <Button variant="subtle" color="gray" size="compact-sm" leftSection={<Unlink size={14} aria-hidden />} onClick={onClick}>
        Disconnect
      </Button>
    </May>
  );
}
