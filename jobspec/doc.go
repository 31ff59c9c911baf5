// Package jobspec reads job and volume files, in the dialect of the Nomad job specification.
//
// A job file is HCL2: constants, `variable "x" { default = ... }`, `locals { ... }`, a few functions and
// templates. Placeholders that only a node can resolve - ${attr...}, ${node...}, ${meta...}, ${env "X"},
// ${NOMAD_...}, ${BERTH_...} - stay unchanged in strings. In JSON (a name that ends in .json) all strings
// stay unchanged. A volume file has constants only.
//
// An unknown name is an error with its position. A name of the dialect that berth does not support yet is
// rejected with a message of its own. The result has the values of the file: structs.Job.Canonicalize sets
// defaults, and Validate checks the content.
package jobspec
