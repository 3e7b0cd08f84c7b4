import { Button } from "@mantine/core";
import { SearchX } from "lucide-react";
import { Link } from "wouter";
import { Empty } from "../parts/empty";
import { Page } from "../parts/page";
import { Panel } from "../parts/panel";

export function NotFoundPage() {
  return (
    <Page title="Page not found">
      <Panel>
        <Empty
          icon={SearchX}
          title="There is no page at this address"
          text="The object that it showed may have been renamed or deleted."
          action={
            <Button component={Link} href="/" variant="default">
              To the dashboard
            </Button>
          }
        />
      </Panel>
    </Page>
  );
}
