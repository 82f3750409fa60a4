import type { promises } from "node:dns";
import { AbstractStartedContainer, GenericContainer } from "testcontainers";

export declare const IMAGE: string;

export interface Fault {
  name: string;
  rule: string;
  state: string;
  hits: number;
  queries: number;
}

export declare class HsdnsContainer extends GenericContainer {
  constructor(manifests: string, image?: string);
  start(): Promise<StartedHsdnsContainer>;
}

export declare class StartedHsdnsContainer extends AbstractStartedContainer {
  dns(): string;
  resolver(): Promise<promises.Resolver>;
  addFault(rule: string): Promise<Fault>;
  faults(): Promise<Fault[]>;
  removeFault(name: string): Promise<void>;
}
