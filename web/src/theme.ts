import { createTheme, type MantineColorsTuple } from "@mantine/core";

/** Slate blue, the only accent. All other colours are grey or mean a state (green, amber, red). */
const slate: MantineColorsTuple = [
  "#eaf4f8", "#d3e5ed", "#a5cbdb", "#74b0c9", "#4e98b8", "#3588ad", "#27749a", "#1d6384", "#164f6b", "#0c3a51",
];

/** Greys with a little blue, so that dark pages look calm beside the accent. */
const dark: MantineColorsTuple = [
  "#d5dade", "#b4bcc3", "#98a2ab", "#68737d", "#3a444d", "#2c353d", "#212930", "#181e24", "#12171c", "#0d1115",
];

export const theme = createTheme({
  primaryColor: "slate",
  primaryShade: { light: 7, dark: 6 },
  colors: { slate, dark },
  fontFamily: "'Inter Variable', system-ui, sans-serif",
  fontFamilyMonospace: "ui-monospace, 'SF Mono', 'Cascadia Mono', 'DejaVu Sans Mono', monospace",
  defaultRadius: "md",
  cursorType: "pointer",
  headings: { fontWeight: "600", sizes: { h1: { fontSize: "1.375rem", lineHeight: "1.3" }, h2: { fontSize: "1rem", lineHeight: "1.4" } } },
  fontSizes: { xs: "0.75rem", sm: "0.8125rem", md: "0.875rem", lg: "1rem", xl: "1.25rem" },
  components: {
    Button: { defaultProps: { size: "sm" } },
    Modal: { defaultProps: { centered: true, closeButtonProps: { "aria-label": "Close" }, overlayProps: { backgroundOpacity: 0.45 } } },
    Tooltip: { defaultProps: { openDelay: 250, withArrow: true, events: { hover: true, focus: true, touch: true } } },
  },
});
