// Package jobfile writes jobs, volumes and namespaces as files in HCL, as a person would write them: without
// the values that are defaults, and in the form of `berth fmt`.
//
// It is the opposite of package jobspec, and Job holds that: it reads its text again, and returns an error
// unless that is the same job. A file is therefore either right or absent.
package jobfile
