package disk

import (
	"testing"

	"berth/structs"
	"berth/test/kit"
)

func TestSettings_HaveBounds(t *testing.T) {
	kit.Must(t, DefaultSettings().Validate())
	for name, edit := range map[string]func(*Settings){
		"no size":        func(s *Settings) { s.MaxSize = 0 },
		"too large":      func(s *Settings) { s.MaxSize = maxBytes + 1 },
		"negative time":  func(s *Settings) { s.Keep = -1 },
		"too long":       func(s *Settings) { s.Keep = structs.MaxInterval + 1 },
		"negative space": func(s *Settings) { s.MinFree = -1 },
		"too much space": func(s *Settings) { s.MinFree = maxBytes + 1 },
	} {
		s := DefaultSettings()
		edit(&s)
		if err := s.Validate(); !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
