/** The frame of every page: navigation, name and state of the array, user menu. */
import { ActionIcon, Alert, Anchor, AppShell, Badge, Burger, Button, Group, Menu, NavLink, Text, Tooltip, useComputedColorScheme, useMantineColorScheme } from "@mantine/core";
import { useDisclosure, useDocumentTitle, useIdle } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { BookOpen, CirclePause, KeyRound, LogOut, Moon, Sun, Unplug, User } from "lucide-react";
import { useEffect, type ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { array } from "./api/queries";
import { lastAnswer, useHeartbeat, usePulse } from "./api/pulse";
import { browser, pageAt, REFERRAL_MS } from "./api/referral";
import { Refusal } from "./api/refusal";
import { isGuest, session, useMay, useSession } from "./api/session";
import { useStream } from "./api/stream";
import { AlertBell, RunningJobs, SearchLink, useOpenAlerts } from "./header";
import { SECTIONS, type PageEntry } from "./pages/map";
import { SetPassword } from "./pages/settings/password";
import { Logo } from "./parts/logo";
import { ProblemAlert } from "./parts/problem";
import { StateBadge } from "./parts/state-badge";
import { moment } from "./format";

/** Idle time-out of a session in milliseconds. Pages poll, so the array cannot detect inactivity. */
const IDLE = 30 * 60 * 1000;

export function Shell({ children }: { children: ReactNode }) {
  useLeaveWhenIdle();
  useStream();
  useHeartbeat();
  return (
    <Frame array={<ArrayName />} user={<UserMenu />}>
      <NoAnswer />
      {children}
    </Frame>
  );
}

/** The page while the user is not yet known: empty at first, and the frame with the reason after a delay. */
export function Asking() {
  const state = useSession();
  useDocumentTitle("Ashlar");
  if (state.at !== "asking" || !state.problem) return null;
  const { problem } = state;
  if (problem.kind === "standby") return <Standby problem={problem} />;
  return (
    <Frame array={<StateBadge state={problem.kind === "silent" ? "silent" : "unreachable"} />}>
      <ProblemAlert error={problem} />
    </Frame>
  );
}

/**
 * The page of a controller that does not serve the array: it names the home. The page then loads the home's page, or
 * resumes here once this controller serves.
 */
function Standby({ problem: { title, detail, home } }: { problem: Refusal }) {
  const there = home === undefined ? undefined : pageAt(home);
  useEffect(() => {
    if (there === undefined) return undefined;
    const timer = setTimeout(() => browser.go(there), REFERRAL_MS);
    return () => clearTimeout(timer);
  }, [there]);
  return (
    <Frame array={<StateBadge state="standby" />}>
      <Alert color="yellow" icon={<CirclePause size={18} />} title={title} role="status">
        {detail.charAt(0).toUpperCase() + detail.slice(1)}.
        {there && (
          <Text mt="sm">
            <Anchor href={there}>Open the interface at {home}</Anchor>
          </Text>
        )}
      </Alert>
    </Frame>
  );
}

/** The banner above every page while the array does not answer: the age of the shown data. */
function NoAnswer() {
  const pulse = usePulse();
  if (pulse === "answers") return null;
  const { title, detail } = pulse === "silent" ? Refusal.silent() : Refusal.of(new TypeError());
  return (
    <Alert color="red" icon={<Unplug size={18} />} title={title} mb="md" role="alert">
      {detail} What is shown is from {moment(lastAnswer(), true)}.
    </Alert>
  );
}

function Frame({ array: name, user, children }: { array: ReactNode; user?: ReactNode; children: ReactNode }) {
  const [opened, menu] = useDisclosure(false);
  const [location] = useLocation();
  // A new page is shown from its top.
  useEffect(() => {
    // scrollTo returns a promise in some browsers; an effect must return nothing or a function.
    window.scrollTo(0, 0);
  }, [location]);
  return (
    <AppShell header={{ height: 52 }} navbar={{ width: 208, breakpoint: "sm", collapsed: { mobile: !opened } }} padding={{ base: "md", md: "lg" }}>
      <a className="skip-link" href="#main">Skip to the content</a>
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap" miw={0}>
            <Burger opened={opened} onClick={menu.toggle} hiddenFrom="sm" size="sm" aria-label="Navigation" aria-expanded={opened} />
            <Logo />
            {name}
          </Group>
          <Group gap={4} wrap="nowrap">
            {user && (
              <>
                <SearchLink />
                <RunningJobs />
                <AlertBell />
              </>
            )}
            <SchemeToggle />
            {user}
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" style={{ overflowY: "auto" }} aria-label="Pages">
        <Navigation onGo={menu.close} />
      </AppShell.Navbar>
      <AppShell.Main id="main" tabIndex={-1}>
        <div style={{ maxWidth: 1440, marginInline: "auto" }}>{children}</div>
      </AppShell.Main>
    </AppShell>
  );
}

function Navigation({ onGo }: { onGo: () => void }) {
  const [location] = useLocation();
  const admin = useMay("admin");
  const link = ({ path, label, icon: Icon }: PageEntry) => {
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
        rightSection={path === "/alerts" ? <OpenAlerts /> : undefined}
        onClick={onGo}
        style={{ borderRadius: "var(--mantine-radius-sm)" }}
      />
    );
  };
  return SECTIONS.map(({ title, pages }) => (
    <div key={title} role="group" aria-label={title || undefined}>
      {title && (
        <Text size="xs" className="quiet" fw={500} px="sm" pt="md" pb={4} aria-hidden>
          {title}
        </Text>
      )}
      {pages.filter((it) => it.role !== "admin" || admin).map(link)}
    </div>
  ));
}

/** Number of alerts that are not acknowledged. */
function OpenAlerts() {
  const { count, color } = useOpenAlerts();
  if (count === 0) return null;
  return (
    <Badge size="sm" variant="filled" color={color} aria-label={`${count} open`}>
      {count}
    </Badge>
  );
}

function ArrayName() {
  const { data, isError } = useQuery(array());
  const pulse = usePulse();
  if (!data && pulse === "answers") return null;
  return (
    <>
      {data && (
        <Text fw={600} size="md" truncate>
          {data.name}
        </Text>
      )}
      <StateBadge state={pulse !== "answers" ? pulse : !data || isError ? "unreachable" : data.state} />
    </>
  );
}

/** The user menu. */
function UserMenu() {
  const who = useSession();
  const [opened, password] = useDisclosure(false);
  if (who.at !== "in") return null;
  return (
    <>
      <Menu position="bottom-end" width={220}>
        <Menu.Target>
          <Button variant="subtle" color="gray" px="xs" leftSection={<User size={18} aria-hidden />} aria-label={`Signed in as ${who.user}`}>
            <span className="user-name">{who.user}</span>
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Label>
            {who.user} · {who.role}
            {who.byToken && " · by token"}
          </Menu.Label>
          {!isGuest(who.user) && (
            <Menu.Item leftSection={<KeyRound size={15} />} onClick={password.open}>
              Change password
            </Menu.Item>
          )}
          <Menu.Item component={Link} href="/reference" leftSection={<BookOpen size={15} />}>
            API reference
          </Menu.Item>
          <Menu.Item leftSection={<LogOut size={15} />} onClick={() => void session.leave()}>
            Sign out
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <SetPassword user={who.user} opened={opened} onClose={password.close} />
    </>
  );
}

/** Signs out an idle session, but not a token, which a wall display may use. */
function useLeaveWhenIdle() {
  const idle = useIdle(IDLE, { initialState: false });
  const who = useSession();
  const leave = idle && who.at === "in" && !who.byToken;
  useEffect(() => {
    if (leave) void session.leave("idle");
  }, [leave]);
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
