import { Button, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { notificationTargets } from "../../api/queries";
import { NotificationsPanel } from "../settings/notifications";
import { Step } from "./step";

/** Notification targets for alerts: without a target the array reports no failed drive. */
export function NotifyStep({ onBack, onNext }: { onBack: () => void; onNext: () => void }) {
  const { data } = useQuery(notificationTargets());
  const none = data?.length === 0;
  return (
    <Step title="Alert notifications" onBack={onBack} forward={<Button onClick={onNext}>{none ? "Without notifications" : "Next"}</Button>}>
      <Text size="sm" mb="sm">
        A failed drive, lost paths and low capacity are alerts. Add a target, and send it a test notification.
      </Text>
      <NotificationsPanel />
    </Step>
  );
}
