// Package jobspec reads job and volume files, in the dialect of the Nomad job specification.
//
// A job file is HCL2: variables, whose values may come from outside the file, locals, functions, templates,
// loops and dynamic blocks. Placeholders that only a node or a shell can resolve - ${attr...}, ${node...},
// ${meta...}, ${env "X"}, ${device...}, ${NAME} - stay unchanged in strings. A job file in JSON has the
// same, because package conf reads it into the syntax of HCL. A volume file has constants only.
//
// The time and the memory of an evaluation are bounded: each value costs its size, and a file has
// structs.MaxEvaluation. Package conf decodes the blocks. HCL's own decoders know neither names that berth
// does not support yet nor durations and sizes, and their messages propose no names.
//
// An unknown name is an error with its position. A name of the dialect that berth does not support yet is
// rejected with a message of its own. The result has the values of the file: structs.Job.Canonicalize sets
// defaults, and Validate checks the content.
package jobspec
