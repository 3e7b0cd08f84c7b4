/** What stands around every page: where one can go, which array this is, and how it is. */
import { ActionIcon, AppShell, Burger, Group, NavLink, Text, Tooltip, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { Boxes, CalendarClock, Camera, ChartLine, ClipboardList, Database, LayoutDashboard, LogOut, Moon, Network, ScrollText, Server, Settings, Sun, Trash2, type LucideIcon } from "lucide-react";
import type { ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { array } from "./api/queries";
import { session } from "./api/session";
import { Logo } from "./parts/logo";
import { StateBadge } from "./parts/state-badge";

type Place = { path: string; label: string; icon: LucideIcon };

/** Where one can go, in groups. */
const PLACES: { title: string; places: Place[] }[] = [
  {
    title: "",
    places: [
      { path: "/", label: "Dashboard", icon: LayoutDashboard },
      { path: "/analysis", label: "Analysis", icon: ChartLine },
    ],
  },
  {
    title: "Storage",
    places: [
      { path: "/volumes", label: "Volumes", icon: Database },
      { path: "/groups", label: "Volume groups", icon: Boxes },
      { path: "/snapshots", label: "Snapshots", icon: Camera },
      { path: "/schedules", label: "Schedules", icon: CalendarClock },
      { path: "/recycle-bin", label: "Recycle bin", icon: Trash2 },
    ],
  },
  {
    title: "Access",
    places: [
      { path: "/hosts", label: "Hosts", icon: Server },
      { path: "/host-groups", label: "Host groups", icon: Network },
    ],
  },
  {
    title: "System",
    places: [
      { path: "/events", label: "Events", icon: ScrollText },
      { path: "/audit", label: "Audit trail", icon: ClipboardList },
      { path: "/settings", label: "Settings", icon: Settings },
    ],
  },
];

export function Shell({ children }: { children: ReactNode }) {
  const [opened, menu] = useDisclosure(false);
  return (
    <AppShell header={{ height: 52 }} navbar={{ width: 208, breakpoint: "sm", collapsed: { mobile: !opened } }} padding={{ base: "md", md: "lg" }}>
      <a className="skip-link" href="#main">Skip to the content</a>
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap" miw={0}>
            <Burger opened={opened} onClick={menu.toggle} hiddenFrom="sm" size="sm" aria-label="Navigation" aria-expanded={opened} />
            <Logo />
            <ArrayName />
          </Group>
          <Group gap={4} wrap="nowrap">
            <SchemeToggle />
            <Tooltip label="Sign out">
              <ActionIcon variant="subtle" color="gray" size="lg" aria-label="Sign out" onClick={session.leave}>
                <LogOut size={18} />
              </ActionIcon>
            </Tooltip>
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" style={{ overflowY: "auto" }} aria-label="Pages">
        <Places onGo={menu.close} />
      </AppShell.Navbar>
      <AppShell.Main id="main" tabIndex={-1}>
        <div style={{ maxWidth: 1440, marginInline: "auto" }}>{children}</div>
      </AppShell.Main>
    </AppShell>
  );
}

function Places({ onGo }: { onGo: () => void }) {
  const [location] = useLocation();
  const link = ({ path, label, icon: Icon }: Place) => {
    const active = path === "/" ? location === "/" : location === path || location.startsWith(`${path}/`);
    return (
      <NavLink
        key={path}
        component={Link}
        href={path}
        label={label}
        active={active}
        aria-current={active ? "page" : undefined}
        leftSection={<Icon size={17} aria-hidden />}
        onClick={onGo}
        style={{ borderRadius: "var(--mantine-radius-sm)" }}
      />
    );
  };
  return PLACES.map(({ title, places }) => (
    <div key={title} role="group" aria-label={title || undefined}>
      {title && (
        <Text size="xs" className="quiet" fw={500} px="sm" pt="md" pb={4} aria-hidden>
          {title}
        </Text>
      )}
      {places.map(link)}
    </div>
  ));
}

function ArrayName() {
  const { data, isError } = useQuery(array());
  if (!data) return null;
  return (
    <>
      <Text fw={600} size="md" truncate>
        {data.name}
      </Text>
      <StateBadge state={isError ? "unreachable" : data.state} />
    </>
  );
}

function SchemeToggle() {
  const { setColorScheme } = useMantineColorScheme();
  const dark = useComputedColorScheme("light", { getInitialValueInEffect: false }) === "dark";
  const label = dark ? "Light colours" : "Dark colours";
  return (
    <Tooltip label={label}>
      <ActionIcon variant="subtle" color="gray" size="lg" aria-label={label} onClick={() => setColorScheme(dark ? "light" : "dark")}>
        {dark ? <Sun size={18} /> : <Moon size={18} />}
      </ActionIcon>
    </Tooltip>
  );
}
