/** The first run: from drives to a disk on a host. Each step shows the present state or asks for a few values. */
import { Stepper } from "@mantine/core";
import { useState } from "react";
import { Page } from "../../parts/page";
import { FirstHost, type Given } from "./first-host";
import { Found } from "./found";
import { NameStep } from "./name";
import { NetworkStep } from "./network";
import { NotifyStep } from "./notify";
import { OnTheHost } from "./on-the-host";
import { SecurityStep } from "./security";

export function SetupPage() {
  const [step, setStep] = useState(0);
  const [given, setGiven] = useState<Given>();
  const next = () => setStep((now) => now + 1);
  const back = () => setStep((now) => now - 1);
  return (
    <Page title="Set up the array">
      <Stepper active={step} size="sm" mb="md" aria-label="Steps" allowNextStepsSelect={false} {...(!given && { onStepClick: setStep })} classNames={{ steps: "setup-steps" }}>
        <Stepper.Step label="Drives" />
        <Stepper.Step label="Name" />
        <Stepper.Step label="Security" />
        <Stepper.Step label="Notifications" />
        <Stepper.Step label="Network" />
        <Stepper.Step label="Host and volume" />
        <Stepper.Step label="On the host" />
      </Stepper>
      {step === 0 && <Found onNext={next} />}
      {step === 1 && <NameStep onBack={back} onNext={next} />}
      {step === 2 && <SecurityStep onBack={back} onNext={next} />}
      {step === 3 && <NotifyStep onBack={back} onNext={next} />}
      {step === 4 && <NetworkStep onBack={back} onNext={next} />}
      {step === 5 && (
        <FirstHost
          onBack={back}
          onDone={(made) => {
            setGiven(made);
            next();
          }}
        />
      )}
      {step === 6 && given && <OnTheHost given={given} />}
    </Page>
  );
}
