// Package compose makes a job file of a compose file, as a person would write it.
//
// A service becomes a group with one task of the docker driver. Services that share a volume or a network
// are tasks of one group, and a service that has to end before one other starts is a prestart task of it.
// A named volume becomes a volume of a class.
//
// No value of a setting is lost in silence: a part of the file that the job does not have is a comment `#
// not carried: ...` in the job file, and a line of the report. Values from the environment of the user,
// and values that look like secrets, never enter the job file. A template reads them from a variable of
// berth.
package compose
