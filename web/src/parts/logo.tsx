/** Dressed stones, laid in courses: what “ashlar” means. */
export function Logo({ size = 28 }: { size?: number }) {
  return <img src="/favicon.svg" width={size} height={size} alt="Ashlar" style={{ flex: "none" }} />;
}
