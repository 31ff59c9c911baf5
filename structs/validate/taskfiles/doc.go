// Package taskfiles checks the files that a task gets before it starts: its artifacts and its templates. It
// knows the protocols of sources, and the functions that the text of a template may call.
//
// The servers check them with the job, before any placeholder has a value. The node checks them again with
// the values, by the same functions.
package taskfiles
