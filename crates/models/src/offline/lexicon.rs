//! The words that the offline model knows, English and Chinese. Data only.

/// What a verb asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    List,
    Read,
    /// A folder is listed, a file is read.
    Show,
    Search,
    Run,
    Write,
    Replace,
    Fetch,
    /// A tool by its name.
    Call,
}

/// The role of a known word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Verb(Verb),
    /// Begins another request: `and`, `then`.
    Then,
    /// May stand before a verb: `please`, `you`.
    Filler,
    /// Introduces a folder: `in`, `under`.
    At,
    /// Introduces the file to write: `to`, `into`.
    To,
    /// Introduces the text to search: `for`.
    For,
    /// Stands before the content in `把 X 写入 Y`.
    Ba,
    /// Introduces the content: `with`, `saying`.
    With,
    /// Means a folder or what is in it.
    Folder,
    /// Begins a question, such as `what`.
    Question,
    /// Has no meaning for the request.
    Stop,
}

pub(super) const ENGLISH: &[(Role, &[&str])] = &[
    (Role::Verb(Verb::List), &["list", "ls", "dir", "enumerate"]),
    (Role::Verb(Verb::Read), &["read", "open", "cat", "print", "summarize", "summarise"]),
    (Role::Verb(Verb::Show), &["show", "display", "view", "look"]),
    (Role::Verb(Verb::Search), &["search", "grep", "find", "locate"]),
    (Role::Verb(Verb::Run), &["run", "execute", "exec"]),
    (Role::Verb(Verb::Write), &["write", "save", "put", "create"]),
    (Role::Verb(Verb::Replace), &["replace", "substitute"]),
    (Role::Verb(Verb::Fetch), &["fetch", "download"]),
    (Role::Verb(Verb::Call), &["call"]),
    (Role::Then, &["and", "then", "also", "plus", "next", "afterwards", "finally"]),
    (
        Role::Filler,
        &[
            "please", "you", "can", "could", "would", "will", "now", "first", "just", "i", "want", "need", "let's",
            "kindly",
        ],
    ),
    (Role::At, &["in", "under", "inside", "within", "of", "at", "from"]),
    (Role::To, &["to", "into", "as", "onto"]),
    (Role::For, &["for"]),
    (Role::With, &["with", "saying", "containing", "contains", "content", "contents"]),
    (Role::Folder, &["folder", "directory", "workspace", "project", "repo", "repository", "files", "here"]),
    (
        Role::Question,
        &[
            "what", "what's", "whats", "which", "how", "tell", "describe", "explain", "about", "is", "are", "why",
            "where", "when", "who", "whether",
        ],
    ),
    (
        Role::Stop,
        &[
            "the",
            "a",
            "an",
            "all",
            "my",
            "me",
            "us",
            "file",
            "folders",
            "directories",
            "entries",
            "everything",
            "this",
            "that",
            "these",
            "current",
            "working",
            "there",
            "word",
            "words",
            "text",
            "string",
            "pattern",
            "phrase",
            "occurrences",
            "matches",
            "command",
            "shell",
            "named",
            "called",
            "it",
            "its",
            "lines",
            "line",
            "comments",
            "any",
            "every",
            "code",
            "your",
            "new",
            "out",
            "do",
            "does",
            "say",
            "says",
            "many",
            "thanks",
            "tool",
            "path",
        ],
    ),
];

/// Words of one character count only where nothing else can be meant; the lexer says where.
pub(super) const CHINESE: &[(Role, &[&str])] = &[
    (Role::Verb(Verb::List), &["列出", "列举", "列一下", "罗列", "列"]),
    (Role::Verb(Verb::Read), &["读取", "阅读", "读一下", "打开", "读"]),
    (Role::Verb(Verb::Show), &["看看", "查看", "看一下", "显示"]),
    (Role::Verb(Verb::Search), &["搜索", "查找", "搜一下", "寻找", "找出", "查询", "搜", "找"]),
    (Role::Verb(Verb::Run), &["运行", "执行", "跑一下", "跑"]),
    (Role::Verb(Verb::Write), &["写入", "写到", "写进", "保存到", "保存为", "保存", "创建", "新建", "写"]),
    (Role::Verb(Verb::Replace), &["替换为", "替换成", "替换"]),
    (Role::Verb(Verb::Fetch), &["抓取", "下载"]),
    (Role::Then, &["然后", "接着", "并且", "最后", "之后", "以及", "同时", "随后", "再", "并", "和"]),
    (Role::Filler, &["请", "帮我", "帮忙", "麻烦", "能不能", "可以", "给我", "我想", "先", "你", "我"]),
    (Role::At, &["在", "从"]),
    (Role::To, &["到", "进"]),
    (Role::Ba, &["把", "将"]),
    (Role::With, &["内容为", "内容是", "写着"]),
    (Role::Folder, &["文件夹", "目录", "项目", "仓库", "这里", "此处", "工作区"]),
    (Role::Question, &["什么", "哪些", "啥", "几个", "多少", "介绍", "有哪些", "有哪", "吗"]),
    (
        Role::Stop,
        &[
            "写了",
            "说了",
            "这个",
            "那个",
            "当前",
            "所有",
            "全部",
            "文件",
            "内容",
            "命令",
            "里面",
            "里的",
            "中的",
            "下的",
            "一下",
            "文字",
            "文本",
            "单词",
            "字样",
            "包含",
            "关键字",
            "关键词",
            "它",
            "里",
            "中",
            "下",
            "的",
            "有",
            "是",
            "了",
            "呢",
            "出",
        ],
    ),
];

/// Whole questions about the model itself, and greetings.
pub(super) const ABOUT: &[&str] = &[
    "who are you",
    "what are you",
    "what can you do",
    "who is this",
    "help",
    "introduce yourself",
    "hello",
    "hi",
    "hey",
    "what is limulus",
    "are you an ai",
    "你是谁",
    "你是什么",
    "你能做什么",
    "你会什么",
    "帮助",
    "你好",
    "介绍一下你自己",
    "您好",
];

/// The phrases of the runtime or a person that ask to continue an interrupted answer.
pub(super) const CONTINUE: &[&str] = &["go on", "continue", "carry on", "继续"];

/// The role of an English word, in lower case.
pub(super) fn english(word: &str) -> Option<Role> {
    ENGLISH.iter().find(|(_, words)| words.contains(&word)).map(|(role, _)| *role)
}

/// The longest known Chinese word that a text begins with.
pub(super) fn chinese(text: &str) -> Option<(Role, &'static str)> {
    let all = CHINESE.iter().flat_map(|(role, words)| words.iter().map(|word| (*role, *word)));
    all.filter(|(_, word)| text.starts_with(word)).max_by_key(|(_, word)| word.len())
}

pub(super) fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}')
}
