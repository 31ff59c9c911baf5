package services

import (
	"maps"
	"slices"

	"berth/internal/placeholder"
	"berth/structs"
)

// expandCheck returns a check with the placeholders of its texts replaced. Its type, its initial status and
// its rules stay: the validation of the job decides by them.
func expandCheck(c *structs.ServiceCheck, expand func(string) string) *structs.ServiceCheck {
	out := *c
	out.Name = expand(c.Name)
	out.Command = expand(c.Command)
	out.Args = placeholder.InList(c.Args, expand)
	out.Protocol = expand(c.Protocol)
	out.Method = expand(c.Method)
	out.Path = expand(c.Path)
	out.Body = expand(c.Body)
	out.PortLabel = expand(c.PortLabel)
	out.TLSServerName = expand(c.TLSServerName)
	out.GRPCService = expand(c.GRPCService)
	out.Header = nil

	// Two names may be equal once placeholders are replaced, so their values need a fixed order.
	for _, name := range slices.Sorted(maps.Keys(c.Header)) {
		if out.Header == nil {
			out.Header = map[string][]string{}
		}

		expanded := expand(name)
		values := placeholder.InList(c.Header[name], expand)
		out.Header[expanded] = append(out.Header[expanded], values...)
	}

	return &out
}
