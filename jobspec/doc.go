// Package jobspec reads job and volume files, in the dialect of the Nomad job specification.
//
// A job file is HCL2: constants, `variable "x" { default = ... }`, `locals { ... }`, a few functions and
// templates. Placeholders that only a node can resolve - ${attr...}, ${node...}, ${meta...}, ${env "X"},
// ${NOMAD_...}, ${BERTH_...} - stay in strings as they are written. In JSON (a name that ends in .json)
// every string is kept as it is. A volume file holds constants only.
//
// Laws: what the file names and berth does not know is an error with its position, never dropped; what
// the dialect has and berth has not yet is refused by name. What is returned is as the file has it:
// defaults and the rules of its content are structs.Job.Canonicalize and Validate.
package jobspec
