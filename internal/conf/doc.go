// Package conf decodes what people and clients write into Go structs: HCL2 (native or JSON syntax) by field
// tags, and the JSON of requests. It is strict: a name that the struct does not know is an error with the
// position of the name, and HCL also tells the names that are known there.
//
// Tags of a struct field in HCL:
//
//	hcl:"name"           an argument; of a map type it may also be written as a block
//	hcl:"name,required"  an argument that must be there
//	hcl:"name,syntax"    an hcl.Expression whose JSON is the text of an expression, as a variable's type
//	hcl:"name,placeholders"  an argument whose texts keep each ${name} as it is written, also in its keys
//	hcl:"name,block"     a block: T or *T at most once, []*T any number, map[string]*T keyed by its label
//	hcl:",label"         the block's label, a string
//	hcl:",range"         an hcl.Range: the position of the block
//
// A field without a tag is ignored. The fields of an embedded struct without a tag count as fields of the
// outer struct. A struct with a method Unsupported() string also knows the names in that string. It rejects
// them with a message of their own. So it does with the names of Rejected() map[string]string, whose values
// tell the user what to do instead. The names of Ignored() map[string]string are accepted with a warning,
// whose reason is the value. An argument of these three with an empty value asks for nothing and is accepted
// without a warning.
//
// Arguments may be string, bool, any integer or float, time.Duration ("30s", or a number of nanoseconds), an
// encoding.TextUnmarshaler, any, pointers to these (nil when absent), and slices and string-keyed maps of
// these. An argument that is absent or null leaves the field unchanged, so a caller sets defaults before
// decoding. A field of type hcl.Expression gets the expression, without its evaluation.
//
// Messages hold names and types, and of the values only malformed numbers, durations and sizes. A message
// therefore shows no secret. No input makes the package panic.
//
// [DecodeJSON] drops no part of a request silently:
//
//   - It rejects a field that the target does not know, with its path
//     (`Job.TaskGroups[0].Services: berth does not know this field`). It accepts the field if its value is
//     empty (null, "", 0, false, the zero time, or only such values), because clients of the dialect send
//     every field.
//   - It rejects a value of the wrong type with its path, line and column.
//   - It rejects a second value of a field, and anything after the body.
//
// It reports all faults at once, and decodes the parts without faults. The caller checks whether the values
// make sense.
package conf
