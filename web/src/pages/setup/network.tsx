import { Alert, Button, Skeleton, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { array } from "../../api/queries";
import { CopyText } from "../../parts/copy";
import { Step } from "./step";

/** Addresses that only this machine reaches. */
const isLoopback = (portal: string) => /^(127\.|\[::1\]|localhost)/.test(portal);

/** The addresses for hosts. They are options of the daemon, so the step has no fields. */
export function NetworkStep({ onBack, onNext }: { onBack: () => void; onNext: () => void }) {
  const { data } = useQuery(array());
  return (
    <Step title="Network" onBack={onBack} forward={<Button onClick={onNext}>Next</Button>}>
      {!data && <Skeleton height={90} />}
      {data && (
        <>
          <dl className="facts">
            <dt>iSCSI portals</dt>
            <dd className="number">
              {data.portals.map((portal) => (
                <div key={portal}>{portal}</div>
              ))}
            </dd>
            <dt>iSCSI target</dt>
            <dd>
              {data.target_iqn} <CopyText text={data.target_iqn} label="Copy the target name" />
            </dd>
            {data.nvme_portals.length > 0 && (
              <>
                <dt>NVMe/TCP portals</dt>
                <dd className="number">
                  {data.nvme_portals.map((portal) => (
                    <div key={portal}>{portal}</div>
                  ))}
                </dd>
                <dt>NVMe subsystem</dt>
                <dd>
                  {data.subsystem_nqn} <CopyText text={data.subsystem_nqn} label="Copy the NQN of the subsystem" />
                </dd>
              </>
            )}
          </dl>
          {data.portals.every(isLoopback) && (
            <Alert color="yellow" mt="md" title="Loopback addresses only">
              Every portal is a loopback address. Start ashlard with an address of each storage network: <code>--iscsi 10.0.0.1:3260,10.0.1.1:3260</code>
            </Alert>
          )}
          {data.portals.length === 1 && (
            <Alert color="yellow" mt="md" title="Single path">
              With a portal in a second network, hosts stay connected when a cable, a card or a switch fails: <code>--iscsi {data.portals[0]},ADDRESS:3260</code>
            </Alert>
          )}
          <Text size="xs" className="quiet" mt="md">
            Portals of the start are options of ashlard; others are added in the settings, also for NVMe/TCP.
          </Text>
        </>
      )}
    </Step>
  );
}
