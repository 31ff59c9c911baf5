// Package nomad reads a cluster of the dialect over its HTTP API, and writes files for berth and a report.
//
// It only reads. Bounds hold for the bytes of an answer, the pages of a list, the number of objects and the
// time of a call. The token goes to the given address alone. Variables are read only if
// the user asks for them, and a report has no values of them.
package nomad
