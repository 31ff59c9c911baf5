// Package compiled keeps the texts of the page those of the binary. In its mode for development, which a
// variable of the environment turns on, the runtime of templ reads them from files that anybody may have
// written.
//
// That runtime reads the variable when it is initialized. Go initializes packages that are ready in the order
// of their paths, so this one is apart and comes first: its path is before that of templ, and it imports
// nothing that the runtime does not import, too.
package compiled

import "os"

// devMode is the variable that turns the mode on.
const devMode = "TEMPL_DEV_MODE"

// A valid name is no error.
var _ = os.Unsetenv(devMode)
