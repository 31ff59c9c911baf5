package structs

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxPort is the highest port of an address.
const MaxPort = 65535

// PortRanges are ports, in the order of their text. Ranges may overlap.
type PortRanges []portRange

type portRange struct{ low, high int }

// ParsePorts reads ports and ranges of ports, separated by commas: "22,80,8000-8100". The empty text has
// none.
func ParsePorts(s string) (PortRanges, error) {
	if len(s) > MaxPortsText {
		return nil, fmt.Errorf("the ports have %d bytes; at most %d are allowed", len(s), MaxPortsText)
	}

	if strings.TrimSpace(s) == "" {
		return nil, nil
	}

	var all PortRanges
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			to = from
		}

		low, lowErr := strconv.Atoi(from)
		high, highErr := strconv.Atoi(to)
		if lowErr != nil || highErr != nil ||
			low < 1 || low > high || high > MaxPort {
			return nil, fmt.Errorf("%q is neither a port nor a range such as 8000-8100, within 1 to %d",
				Cut(part, MaxQuoted), MaxPort)
		}

		all = append(all, portRange{low, high})
	}

	return all, nil
}

// Has reports whether a port is among them.
func (r PortRanges) Has(port int) bool {
	for _, p := range r {
		if p.low <= port && port <= p.high {
			return true
		}
	}
	return false
}
