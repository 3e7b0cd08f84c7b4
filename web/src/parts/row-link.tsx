import { Link } from "wouter";

/** The name of a thing in a table, which leads to its page below `place`. A long one is cut; its title has all of it. */
export function RowLink({ place, name }: { place: string; name: string }) {
  return (
    <Link className="row-link cut" title={name} href={`/${place}/${encodeURIComponent(name)}`}>
      {name}
    </Link>
  );
}
