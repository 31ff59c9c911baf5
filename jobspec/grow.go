package jobspec

import (
	"fmt"
	"strconv"
	"strings"

	"berth/structs"
)

// grow is when a volume grows by itself, and how much.
type grow struct {
	At  percent  `hcl:"at,required"`
	By  percent  `hcl:"by,required"`
	Max byteSize `hcl:"max,required"`
}

// policy converts the block, nil for none.
func (g *grow) policy() *structs.CSIGrow {
	if g == nil {
		return nil
	}
	return &structs.CSIGrow{
		At:  int(g.At),
		By:  int(g.By),
		Max: int64(g.Max),
	}
}

// percent is a whole number of percent, with its sign ("80%").
type percent int

// Expected describes the syntax of a percentage.
func (*percent) Expected() string { return `a percentage such as "80%"` }

// UnmarshalText reads a percentage.
func (p *percent) UnmarshalText(text []byte) error {
	digits, found := strings.CutSuffix(strings.TrimSpace(string(text)), "%")
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || !found {
		return fmt.Errorf("%.40q is not a percentage; expected %s", text, p.Expected())
	}
	*p = percent(n)
	return nil
}
