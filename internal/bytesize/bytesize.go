// Package bytesize reads numbers of bytes in configurations.
package bytesize

import (
	"fmt"
	"math"

	"github.com/dustin/go-humanize"
)

// Size is a number of bytes, written like "100GB".
type Size int64

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil || n > math.MaxInt64 {
		return fmt.Errorf("%.40q is not a size such as 100GB", text)
	}
	*s = Size(n)
	return nil
}
