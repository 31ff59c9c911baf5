"use strict";
// Each view works without this script.
