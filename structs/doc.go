// Package structs holds what goes over a wire or into a row: one file per noun.
//
// A struct here is at once the msgpack body of a remote procedure, the JSON body of the HTTP API, the
// row in the state store and the value the command line prints. Its laws:
//
//   - JSON and msgpack names are the Go field names, in the dialect of the Nomad HTTP API wherever both
//     have the resource; what berth adds is added as a field, never by changing one.
//   - Times are UnixNano (int64) unless the field says otherwise; durations are nanoseconds.
//   - A row never changes once it is in the store: copy it (each row has a Copy), edit, put it back.
//   - Secrets are of the type Secrets, which prints as [redacted] and marshals to nothing in JSON.
//
// The structs that are encoded most often have generated codecs (codec_gen.go). A new field of such a struct
// goes over no wire before `make goldens` has run. The other structs go by reflection.
//
// The package knows no store, no network and no clock.
package structs
