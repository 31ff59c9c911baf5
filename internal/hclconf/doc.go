// Package hclconf decodes HCL2 (native or JSON syntax) into Go structs by field tags, strictly: what a
// file names and the struct does not know is an error that says where it stands and what is known there.
//
// Tags of a struct field:
//
//	hcl:"name"              an argument; of a map type it may also be written as a block
//	hcl:"name,required"     an argument that must be there
//	hcl:"name,block"        a block: T or *T at most once, []*T any number, map[string]*T keyed by its label
//	hcl:",label"            the block's label, a string
//	hcl:",range"            an hcl.Range: where the block stands
//	hcl:",remain"           a map[string]any that takes every name that no other field takes
//	hcl:"name,unsupported"  a name of the dialect that is refused with a message of its own
//
// A field without a tag is left alone, an embedded struct without one is read as if its fields stood in
// the outer struct. Arguments may be string, bool, any integer or float, time.Duration ("30s", or a
// number of nanoseconds), an encoding.TextUnmarshaler, any, pointers to these (nil when absent), and
// slices and string-keyed maps of these. An argument that is absent or null leaves the field as it was,
// so that defaults are set before decoding.
//
// Laws: messages hold names and types, and values only where they are numbers, durations or sizes that
// cannot be read, so that no secret shows in one; no input makes the package panic.
package hclconf
