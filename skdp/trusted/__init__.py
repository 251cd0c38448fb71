"""What every guarantee depends on: releases, the theorems that they rest on, and one checker."""
