/** The settings of the whole array, in parts at addresses below `/settings`. */
import { Stack, Tabs, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useLocation } from "wouter";
import { useMay } from "../../api/session";
import { Page } from "../../parts/page";
import { NotFoundPage } from "../not-found";
import { ApiAddressPanel } from "./api-address";
import { CertificatePanel } from "./certificate";
import { DirectoriesPanel } from "./directories";
import { GeneralSettings } from "./general";
import { KeyPanel } from "./key";
import { NotificationsPanel } from "./notifications";
import { PortalsPanel } from "./portals";
import { SupportPanel } from "./support";
import { TokensPanel } from "./tokens";
import { UpgradePanel } from "./upgrade";
import { UsersPanel } from "./users";

type Part = { name: string; label: string; admin?: boolean; show: () => ReactNode };

const GENERAL = "general";

const PARTS: Part[] = [
  { name: GENERAL, label: "General", show: () => <GeneralSettings /> },
  { name: "portals", label: "Portals", show: () => <Addresses /> },
  { name: "users", label: "Users", admin: true, show: () => <UsersPanel /> },
  { name: "directories", label: "Directories", admin: true, show: () => <DirectoriesPanel /> },
  { name: "tokens", label: "API tokens", admin: true, show: () => <TokensPanel /> },
  { name: "key", label: "Encryption", show: () => <KeyPanel /> },
  { name: "notifications", label: "Notifications", admin: true, show: () => <NotificationsPanel /> },
  { name: "certificate", label: "Certificate", show: () => <CertificatePanel /> },
  { name: "upgrade", label: "Upgrade", show: () => <UpgradePanel /> },
  { name: "support", label: "Support", admin: true, show: () => <SupportPanel /> },
];

/** The addresses for hosts and administrators. */
function Addresses() {
  return (
    <Stack gap="md">
      <PortalsPanel />
      <ApiAddressPanel />
    </Stack>
  );
}

export function SettingsPage({ part = GENERAL }: { part?: string }) {
  const [, go] = useLocation();
  const admin = useMay("admin");
  const parts = PARTS.filter((it) => admin || !it.admin);
  if (!PARTS.some((it) => it.name === part)) return <NotFoundPage />;
  return (
    <Page title="Settings">
      <Tabs value={part} onChange={(name) => go(name && name !== GENERAL ? `/settings/${name}` : "/settings")} keepMounted={false} activateTabWithKeyboard={false}>
        <Tabs.List mb="md" aria-label="Settings sections">
          {parts.map(({ name, label }) => (
            <Tabs.Tab key={name} value={name}>
              {label}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        {parts.map(({ name, show }) => (
          <Tabs.Panel key={name} value={name}>
            {show()}
          </Tabs.Panel>
        ))}
        {!parts.some((it) => it.name === part) && <Text size="sm">This part of the settings is for users with the role admin.</Text>}
      </Tabs>
    </Page>
  );
}
