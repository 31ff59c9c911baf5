// Package structs has the types of wires and rows: one file per noun.
//
// A struct here is at once the msgpack body of a remote procedure, the JSON body of the HTTP API, the row in
// the state store and the value that the command line prints. Its rules:
//
//   - JSON and msgpack names are the Go field names, in the dialect of the Nomad HTTP API wherever both have
//     the resource. berth adds fields and never changes one.
//   - Times are UnixNano (int64) unless the field says otherwise. Durations are nanoseconds.
//   - A row in the store never changes. A change is made to a copy (each row has a Copy), which is put back.
//   - Secrets are of the type Secrets, which prints as [redacted] and marshals to null in JSON. The methods
//     Redacted remove them from answers to operators.
//
// The structs that are encoded most often have generated codecs (codec_gen.go). A new field of such a struct
// goes over no wire before `make goldens` has run. The other structs are encoded by reflection.
//
// Requests that change nothing and answer with more than rows are here too: the dry run and the check of a
// job, the reasons for which a job or a volume waits, and searches. Rows and requests to which no type here
// refers are in packages below, which follow the same rules: access, cluster, storage and others
// (codecgen.WirePackages). The packages capacity, defaults, jobdiff and validate compute with the types.
//
// The package knows no store, no network and no clock.
package structs
