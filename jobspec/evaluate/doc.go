// Package evaluate reads the parts of a job file that give values: variables, locals, placeholders and
// dynamic blocks. It returns a body without them, whose expressions have bounded costs. It knows no block of
// a job.
package evaluate
