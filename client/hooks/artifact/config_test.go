package artifact

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

func TestSettings_HaveBounds(t *testing.T) {
	for _, c := range []struct {
		edit func(*Settings)
		want string
	}{
		{func(*Settings) {}, ""},
		{func(s *Settings) { s.HTTPReadTimeout = 0 }, "client.artifact.http_read_timeout"},
		{func(s *Settings) { s.GitTimeout = 8 * 24 * time.Hour }, "client.artifact.git_timeout"},
		{func(s *Settings) { s.HTTPMaxSize = 0 }, "client.artifact.http_max_size"},
		{func(s *Settings) { s.DecompressionSizeLimit = -1 }, "client.artifact.decompression_size_limit"},
		{func(s *Settings) { s.DecompressionFileCountLimit = 1 << 30 },
			"client.artifact.decompression_file_count_limit"},
		{func(s *Settings) { s.FilesystemIsolationExtraPaths = []string{"d:r:/opt/x", "f:rx:/opt/y"} }, ""},
		{func(s *Settings) { s.FilesystemIsolationExtraPaths = []string{"/opt/x"} }, "f:r:FILE"},
		{func(s *Settings) { s.FilesystemIsolationExtraPaths = []string{"d:rw:/opt/x"} }, "only reads"},
		{func(s *Settings) { s.FilesystemIsolationExtraPaths = []string{"d:r:opt/x"} }, "absolute path"},
		{func(s *Settings) { s.FilesystemIsolationExtraPaths = []string{"d:r:/"} }, "every download has"},
		{func(s *Settings) { s.AllowNetworks = []string{"127.0.0.0/8", "::1/128"} }, ""},
		{func(s *Settings) { s.AllowNetworks = []string{"127.0.0.1"} }, "is not a network such as"},
		{func(s *Settings) { s.AllowNetworks = []string{"127.0.0.1/8"} }, "is not a network such as"},
		{func(s *Settings) { s.AllowNetworks = []string{"::ffff:127.0.0.0/104"} }, "is not a network such as"},
		{func(s *Settings) { s.AllowNetworks = slices.Repeat([]string{"127.0.0.0/8"}, maxNetworks) }, ""},
		{func(s *Settings) { s.AllowNetworks = slices.Repeat([]string{"127.0.0.0/8"}, maxNetworks+1) },
			"client.artifact.allow_networks: at most 256 networks"},
	} {
		s := DefaultSettings()
		c.edit(&s)
		err := s.Validate()
		ok := err == nil
		if c.want != "" {
			ok = structs.IsKind(err, structs.KindInvalid) && strings.Contains(err.Error(), c.want)
		}
		if !ok {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
