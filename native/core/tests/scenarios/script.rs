//! The form of a scenario file: `== title`, then blocks of comments, commands and their trace.

/// A scenario, in the words of its file.
pub struct Scenario {
    pub title: String,
    /// Everything before the first block.
    pub head: String,
    /// What stands below the title: the shard's configuration.
    pub config: Vec<String>,
    pub blocks: Vec<Block>,
}

pub struct Block {
    /// Comments and commands as they stand in the file.
    pub text: String,
    pub commands: Vec<String>,
}

pub fn parse(text: &str) -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    let mut head = String::new();
    for paragraph in text.split("\n\n") {
        let paragraph = paragraph.trim_matches('\n');
        if let Some(title) = paragraph.strip_prefix("== ") {
            let head = format!("{}{paragraph}\n\n", std::mem::take(&mut head));
            let title = title.lines().next().unwrap().into();
            let config = paragraph.lines().filter(|line| line.starts_with("config"));
            let config = config.map(Into::into).collect();
            scenarios.push(Scenario { title, head, config, blocks: Vec::new() });
        } else if let Some(scenario) = scenarios.last_mut() {
            if !paragraph.is_empty() {
                scenario.blocks.push(parse_block(paragraph));
            }
        } else {
            head.push_str(&format!("{paragraph}\n\n"));
        }
    }
    scenarios
}

fn parse_block(paragraph: &str) -> Block {
    let mut block = Block { text: String::new(), commands: Vec::new() };
    for line in paragraph.lines().take_while(|line| *line != "----") {
        block.text.push_str(&format!("{line}\n"));
        if !line.starts_with('#') {
            block.commands.push(line.into());
        }
    }
    block
}
