import { Button } from "@mantine/core";
import { Unlink } from "lucide-react";
import { May } from "./may";

/** At the end of a connection's row, for those who may. */
export function Disconnect({ onClick }: { onClick: () => void }) {
  return (
    <May>
      <Button variant="subtle" color="gray" size="compact-sm" leftSection={<Unlink size={14} aria-hidden />} onClick={onClick}>
        Disconnect
      </Button>
    </May>
  );
}
