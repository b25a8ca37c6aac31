// The document of a report (cli/report_document.h), as its parts are drawn from it.
//
// The script of the page is the files of this folder, one after the other in the order of cli/CMakeLists.txt, behind D3.
// tsc checks their types: tests/report_page/types.
'use strict';

/**
 * @typedef {{name: string, text: string}} VerdictLine
 * @typedef {{name: number[], layer: number[], op: number[], kind: number[], queue: number[], phase: number[],
 *   bytes: number[], inputs: number[], input_register: number[], input_repeat: number[], input_peers: number[]}} Actors
 * @typedef {{name: number[], layer: number[], producer: number[], every: number[], initial: number[],
 *   count: number[]}} Registers
 * @typedef {{name: string, queues: string[], phases: string[], actors: Actors, registers: Registers}} Program
 * @typedef {{program: number, devices: string, stands_for: number, kept: boolean, queue_busy_s: number[],
 *   peer_class: number[]}} DeviceClass
 * @typedef {{tick_s: number, step_ticks: number, classes: DeviceClass[], programs: Program[], names: string[],
 *   kinds: string[], runs: {class: number[], queue: number[], phase: number[], micro_batch: number[], run: number[],
 *   shape: number[], begin: number[]}, shapes: {first: number[], start: number[], duration: number[]}}} TimelineColumns
 * @typedef {{name: string, role: string, type: string, shape: number[], layout: string[], blocks: number,
 *   ranges: number[][][], devices: string[]}} LaidTensor
 * @typedef {{name: string, gpus: number, layers: string, mesh: string, in_flight: number, busy_s: number,
 *   bubble_fraction: number, exposed_comm_s: number, peak_memory_bytes: number,
 *   memory_bytes: Record<string, number>}} Stage
 * @typedef {{stage: string, link: string, link_bandwidth_bytes_per_s: number, what: string, over: string, acts: number,
 *   bytes: number, alone_s: number, simulated_s: number}} Link
 * @typedef {{step_time_s: number, peak_memory_bytes: number, gpus: number, flags: string, layouts_found: boolean,
 *   front: boolean, this_plan: boolean}} Candidate
 * @typedef {{framework: string, device: string, least_gpus: number, published_steps: number, share: number,
 *   step_time_range_s: [number, number], used: boolean}} ErrorRow
 * @typedef {{name: string, what: string, half_step_s: number | null, double_step_s: number | null}} Sensitive
 * @typedef {{days: number, gpu_hours: number, dollars?: number, energy_mwh?: number, lost_s?: number, goodput?: number,
 *   failures?: number, checkpoint_interval_steps?: number}} Cost
 * @typedef {{tokens?: number, samples?: number, given_mtbf_s?: number, given_mtbf_gpus?: number, watts_per_gpu?: number,
 *   pue?: number, rows: {steps: number, dollars_per_gpu_hour?: number, low: Cost, estimate: Cost, high: Cost}[]}} WholeRun
 * @typedef {{
 *   plan: string, model?: string, cluster: string, device: string, framework: string, gpus: number, verdict: VerdictLine[],
 *   result: {fits: boolean, step_time_s: number, first_step_time_s: number, samples_per_s: number,
 *     tokens_per_s: number, model_tflops_per_gpu: number, hardware_tflops_per_gpu: number, mfu: number,
 *     bubble_fraction: number, exposed_comm_s: number, comm_bytes: Record<string, number>,
 *     configuration: Record<string, string>},
 *   run?: WholeRun,
 *   stages: Stage[],
 *   communications: {name: string, stage: string, over: string, why: string, s: number, bytes: number, acts: number}[],
 *   links: Link[],
 *   memory: {windows: number, unit_bytes: number, limit_bytes: number,
 *     stages: {class: number, held: Record<string, number[]>}[]},
 *   layouts: null | {layer: number, stage: number, mesh: {name: string, devices: number}[], tensors: LaidTensor[],
 *     left_out: number},
 *   candidates: Candidate[],
 *   sensitivity?: Sensitive[],
 *   errors: {text: string, rows: ErrorRow[]},
 *   timeline: TimelineColumns}} ReportDocument
 */

const began = performance.now();

/** @type {ReportDocument} */
const report = JSON.parse(byId('document').textContent || '');
